// The name of each event in a trace file, and its fields in the order in which the file holds them,
// that of event.h. An event or a field that is added there and not here does not compile: add it
// here, and raise kTraceVersion (trace/trace_file.h) if files were published since it was last
// raised. Used by event_json.cpp and its test only.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "trace/event.h"

namespace lockstep::trace {

template <class E, class T>
concept Is = std::same_as<std::remove_const_t<E>, T>;

template <class E>
inline constexpr auto kEventName = E::missing_in_event_fields_h;
template <>
inline constexpr std::string_view kEventName<RequestAdmitted> = "request_admitted";
template <>
inline constexpr std::string_view kEventName<RequestRefused> = "request_refused";
template <>
inline constexpr std::string_view kEventName<RequestFinished> = "request_finished";
template <>
inline constexpr std::string_view kEventName<PagesTaken> = "pages_taken";
template <>
inline constexpr std::string_view kEventName<PagesReturned> = "pages_returned";
template <>
inline constexpr std::string_view kEventName<PoolBalance> = "pool_balance";
template <>
inline constexpr std::string_view kEventName<CellWritten> = "cell_written";
template <>
inline constexpr std::string_view kEventName<CellsRead> = "cells_read";
template <>
inline constexpr std::string_view kEventName<OpCompleted> = "op_completed";
template <>
inline constexpr std::string_view kEventName<RowHashed> = "row_hashed";
template <>
inline constexpr std::string_view kEventName<TokenSampled> = "token_sampled";
template <>
inline constexpr std::string_view kEventName<TokenReferenced> = "token_referenced";
template <>
inline constexpr std::string_view kEventName<DeviceReported> = "device_reported";
template <>
inline constexpr std::string_view kEventName<DeviceCounted> = "device_counted";
template <>
inline constexpr std::string_view kEventName<SubjectFailed> = "subject_failed";
template <>
inline constexpr std::string_view kEventName<LifeBegan> = "life_began";
template <>
inline constexpr std::string_view kEventName<LifeAborted> = "life_aborted";
template <>
inline constexpr std::string_view kEventName<LifeEnded> = "life_ended";
template <>
inline constexpr std::string_view kEventName<BlocksTaken> = "blocks_taken";
template <>
inline constexpr std::string_view kEventName<BlocksHit> = "blocks_hit";
template <>
inline constexpr std::string_view kEventName<BlocksShared> = "blocks_shared";
template <>
inline constexpr std::string_view kEventName<BlocksReleased> = "blocks_released";
template <>
inline constexpr std::string_view kEventName<BlockReplaced> = "block_replaced";
template <>
inline constexpr std::string_view kEventName<BlockPublished> = "block_published";
template <>
inline constexpr std::string_view kEventName<KeyDropped> = "key_dropped";
template <>
inline constexpr std::string_view kEventName<PoolCounted> = "pool_counted";
template <>
inline constexpr std::string_view kEventName<AllocationRefused> = "allocation_refused";
template <>
inline constexpr std::string_view kEventName<LaunchMade> = "launch_made";
template <>
inline constexpr std::string_view kEventName<LaunchFailed> = "launch_failed";
template <>
inline constexpr std::string_view kEventName<LaunchRan> = "launch_ran";
template <>
inline constexpr std::string_view kEventName<CopyRan> = "copy_ran";
template <>
inline constexpr std::string_view kEventName<LaunchCompleted> = "launch_completed";
template <>
inline constexpr std::string_view kEventName<TokensAccepted> = "tokens_accepted";
template <>
inline constexpr std::string_view kEventName<RequestPreempted> = "request_preempted";
template <>
inline constexpr std::string_view kEventName<DeviceReset> = "device_reset";
template <>
inline constexpr std::string_view kEventName<CellsFlipped> = "cells_flipped";
template <>
inline constexpr std::string_view kEventName<RequestTouched> = "request_touched";
template <>
inline constexpr std::string_view kEventName<LifeReferenced> = "life_referenced";
template <>
inline constexpr std::string_view kEventName<RunEnded> = "run_ended";

// with_fields(event, f): f(field, ...), references to all fields.
template <Is<RequestAdmitted> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, prompt] = event;
  return f(request, prompt);
}
template <Is<RequestRefused> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, reason] = event;
  return f(request, reason);
}
template <Is<RequestFinished> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, reason] = event;
  return f(request, reason);
}
template <Is<PagesTaken> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, pages] = event;
  return f(request, pages);
}
template <Is<PagesReturned> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, pages] = event;
  return f(request, pages);
}
template <Is<PoolBalance> E, class F>
auto with_fields(E& event, F f) {
  auto& [total, free, used] = event;
  return f(total, free, used);
}
template <Is<CellWritten> E, class F>
auto with_fields(E& event, F f) {
  auto& [launch, row, page, offset] = event;
  return f(launch, row, page, offset);
}
template <Is<CellsRead> E, class F>
auto with_fields(E& event, F f) {
  auto& [launch, request, pages, page_size, position_count] = event;
  return f(launch, request, pages, page_size, position_count);
}
template <Is<RowHashed> E, class F>
auto with_fields(E& event, F f) {
  auto& [row, layer, point, hash] = event;
  return f(row, layer, point, hash);
}
template <Is<TokenSampled> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, position, argmax, fed] = event;
  return f(request, position, argmax, fed);
}
template <Is<TokenReferenced> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, position, argmax, margin, sigma] = event;
  return f(request, position, argmax, margin, sigma);
}
template <Is<DeviceReported> E, class F>
auto with_fields(E& event, F f) {
  auto& [checker, kind, kernel, message, source, source_second, count] = event;
  return f(checker, kind, kernel, message, source, source_second, count);
}
template <Is<DeviceCounted> E, class F>
auto with_fields(E& event, F f) {
  auto& [launches, warp_instructions, checked_accesses] = event;
  return f(launches, warp_instructions, checked_accesses);
}
template <Is<SubjectFailed> E, class F>
auto with_fields(E& event, F f) {
  auto& [file, function, message] = event;
  return f(file, function, message);
}
template <Is<LifeBegan> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, key, client_id, tick, identity, tokens, prompt_tokens, max_tokens, parent] =
      event;
  return f(request, key, client_id, tick, identity, tokens, prompt_tokens, max_tokens, parent);
}
template <Is<LifeAborted> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, tick] = event;
  return f(request, tick);
}
template <Is<LifeEnded> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, tick, reason, counts] = event;
  return f(request, tick, reason, counts);
}
template <Is<BlocksTaken> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, group, pool, first_index, blocks] = event;
  return f(request, group, pool, first_index, blocks);
}
template <Is<BlocksHit> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, group, pool, tokens, blocks] = event;
  return f(request, group, pool, tokens, blocks);
}
template <Is<BlocksShared> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, group, pool, blocks] = event;
  return f(request, group, pool, blocks);
}
template <Is<BlocksReleased> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, group, pool, blocks] = event;
  return f(request, group, pool, blocks);
}
template <Is<BlockReplaced> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, group, pool, index, source, destination, launch] = event;
  return f(request, group, pool, index, source, destination, launch);
}
template <Is<BlockPublished> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, group, pool, index, block, key] = event;
  return f(request, group, pool, index, block, key);
}
template <Is<KeyDropped> E, class F>
auto with_fields(E& event, F f) {
  auto& [pool, block] = event;
  return f(pool, block);
}
template <Is<PoolCounted> E, class F>
auto with_fields(E& event, F f) {
  auto& [pool, free, evictable, used, reserved] = event;
  return f(pool, free, evictable, used, reserved);
}
template <Is<AllocationRefused> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, pool_before, pool_after] = event;
  return f(request, pool_before, pool_after);
}
template <Is<LaunchMade> E, class F>
auto with_fields(E& event, F f) {
  auto& [launch, tick, padded_to, requests] = event;
  return f(launch, tick, padded_to, requests);
}
template <Is<RanRows> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, first_position, tokens, sequence_length, tables, slots] = event;
  return f(request, first_position, tokens, sequence_length, tables, slots);
}
template <Is<LaunchFailed> E, class F>
auto with_fields(E& event, F f) {
  auto& [launch, tick] = event;
  return f(launch, tick);
}
template <Is<LaunchRan> E, class F>
auto with_fields(E& event, F f) {
  auto& [launch, tick, rows, pad_slots] = event;
  return f(launch, tick, rows, pad_slots);
}
template <Is<CopyRan> E, class F>
auto with_fields(E& event, F f) {
  auto& [pool, source, destination] = event;
  return f(pool, source, destination);
}
template <Is<LaunchCompleted> E, class F>
auto with_fields(E& event, F f) {
  auto& [launch, tick] = event;
  return f(launch, tick);
}
template <Is<TokensAccepted> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, launch, tick, tokens, proposed, accepted] = event;
  return f(request, launch, tick, tokens, proposed, accepted);
}
template <Is<RequestPreempted> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, tick] = event;
  return f(request, tick);
}
template <Is<DeviceReset> E, class F>
auto with_fields(E& event, F f) {
  auto& [tick, memory_lost] = event;
  return f(tick, memory_lost);
}
template <Is<CellsFlipped> E, class F>
auto with_fields(E& event, F f) {
  auto& [pool, block] = event;
  return f(pool, block);
}
template <Is<RequestTouched> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, fault] = event;
  return f(request, fault);
}
template <Is<LifeReferenced> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, tokens, text, finish_reason, logprobs, got_tokens, got_text, got_finish_reason,
         got_logprobs] = event;
  return f(request, tokens, text, finish_reason, logprobs, got_tokens, got_text, got_finish_reason,
           got_logprobs);
}
template <Is<RunEnded> E, class F>
auto with_fields(E& event, F f) {
  auto& [tick, live] = event;
  return f(tick, live);
}
template <Is<RowId> E, class F>
auto with_fields(E& event, F f) {
  auto& [request, position] = event;
  return f(request, position);
}
template <Is<TokenLogprobs> E, class F>
auto with_fields(E& event, F f) {
  auto& [entries] = event;
  return f(entries);
}
template <Is<Counts> E, class F>
auto with_fields(E& event, F f) {
  auto& [prompt, cached, external, scheduled, proposed, accepted, emitted, preemptions, aborts] =
      event;
  return f(prompt, cached, external, scheduled, proposed, accepted, emitted, preemptions, aborts);
}

}  // namespace lockstep::trace
