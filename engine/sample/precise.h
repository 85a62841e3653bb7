// Shares to about 100 bits, for decisions that double's roundings could turn: a filter's limit
// often lies exactly on a probability ("the two of 0.4 and 0.3 reach 0.7").
//
// A number is an unevaluated sum of two doubles (Dekker, Numer. Math. 18, 1971; Knuth, TAOCP vol.
// 2, 4.2.2). Like all of this room it must not be contracted to fma.
#pragma once

namespace lockstep::engine {

// high + low, where high is the double nearest to the sum.
struct Precise {
  double high = 0, low = 0;
};

Precise operator+(Precise a, Precise b);
// Of numbers between 2^-400 and 2^400, or 0; b != 0 in a / b.
Precise operator*(Precise a, Precise b);
Precise operator/(Precise a, Precise b);
bool operator<(Precise a, Precise b);

// e^((logit - largest) / temperature) within 2^-90 of itself; 0 where it is below 2^-831 or so.
// logit <= largest, both finite or equal; temperature > 0.
Precise precise_weight(double logit, double largest, double temperature);

}  // namespace lockstep::engine
