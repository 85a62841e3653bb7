# Precompiled headers. Sources include what they use all the same (ci/tidy.py).
set(lockstep_standard_headers <algorithm> <array> <cstdint> <filesystem> <functional> <map> <memory>
    <optional> <set> <span> <string> <string_view> <unordered_map> <variant> <vector>)

# Headers that cost seconds in each file of a room are read once for the room.
function(lockstep_precompiled room)
  target_precompile_headers(${room} PRIVATE ${lockstep_standard_headers} ${ARGN})
endfunction()

# All tests share one; so their flags are the same. Most of a test's code runs once: -O1 compiles it
# in two thirds of the time, and what it tests is built as ever.
add_library(lockstep_test_flags INTERFACE)
# g++ 12 takes a move of a short std::string for a write out of bounds there (GCC bug 105651).
target_compile_options(lockstep_test_flags INTERFACE $<$<CONFIG:Release>:-O1>
                       "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")
file(WRITE ${CMAKE_BINARY_DIR}/precompiled_tests.cpp "")
add_library(precompiled_tests OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled_tests.cpp)
target_link_libraries(precompiled_tests PRIVATE GTest::gtest GTest::gmock rapidcheck
                      rapidcheck_gtest nlohmann_json::nlohmann_json lockstep_warnings
                      lockstep_test_flags)
target_precompile_headers(precompiled_tests PRIVATE ${lockstep_standard_headers} <gtest/gtest.h>
                          <gmock/gmock.h> <rapidcheck.h> <rapidcheck/gtest.h>
                          ${CMAKE_SOURCE_DIR}/model/json_instances.h)
