# lockstep_room(PATH LINKS... ): one static library per folder. Its sources are the folder's *.cpp
# (RECURSE: and those below it, less APART, folders that are rooms of their own), less tests; `<file>_test.cpp` beside the code become one test
# program. The library's links are the arrows of docs/architecture.md.
function(lockstep_room path)
  cmake_parse_arguments(ROOM "RECURSE" "EXCLUDE" "LINKS;TEST_LINKS;EXTRA_SOURCES;APART" ${ARGN})
  string(REPLACE "/" "_" name ${path})
  if(ROOM_RECURSE)
    set(glob GLOB_RECURSE)
  else()
    set(glob GLOB)
  endif()
  file(${glob} sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${path}/*.cpp)
  foreach(folder ${ROOM_APART})
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_SOURCE_DIR}/${path}/${folder}/")
  endforeach()
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  if(ROOM_EXCLUDE)
    list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/${path}/${ROOM_EXCLUDE})
  endif()
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(APPEND sources ${ROOM_EXTRA_SOURCES})
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${ROOM_LINKS} PRIVATE lockstep_warnings)
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} INTERFACE ${ROOM_LINKS})
  endif()
  if(tests)
    lockstep_test(${name}_test SOURCES ${tests} LINKS ${name} ${ROOM_TEST_LINKS})
  endif()
endfunction()

# lockstep_test(NAME SOURCES... LINKS...): a GoogleTest program; each TEST is one ctest case.
function(lockstep_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LINKS} GTest::gtest_main GTest::gmock
                        lockstep_warnings lockstep_test_flags)
  target_precompile_headers(${name} REUSE_FROM precompiled_tests)
  target_compile_definitions(${name} PRIVATE
    LOCKSTEP_SOURCE_DIR="${CMAKE_SOURCE_DIR}" LOCKSTEP_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/golden")
  # Suites named Slow... get the label `slow`, which `./lockstep test` leaves out.
  gtest_discover_tests(${name} TEST_FILTER -Slow* NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 600)
  gtest_discover_tests(${name} TEST_FILTER Slow* NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 3600 LABELS slow)
endfunction()
