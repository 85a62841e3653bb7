# Warnings that every target of ours is built with. -ffp-contract=off: the same bits from every
# compiler and host (no fused multiply-add but where the code says fma).
add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror=switch -Werror=return-type)
add_compile_options(-ffp-contract=off -fno-fast-math)
# Paths in messages start at the project's root, on every machine.
add_compile_options(-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
