# The interpreter's handlers are compiled once per host instruction set, from one source: files
# named *_avx512.cpp and *_avx2.cpp get the flags, the rest is plain x86-64. Same bits from each
# (no contraction, no fast math); exec/ picks one at run time. No trapping, no errno: loops with
# floating-point selects and roots vectorise; values are the same.
# exec/ has hundreds of loops of 32 iterations: -O3 would unroll them all, at ten times the compile
# time and no gain.
function(lockstep_vgpu_flags)
  set(vectorize "-O2;-ftree-vectorize")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND vectorize "-fvect-cost-model=unlimited")
  endif()
  # g++ 12 takes its own _mm512_undefined_* for a use of uninitialized values (GCC bug 105593).
  set(quiet)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    set(quiet -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  foreach(room ${ARGN})
    file(GLOB avx512 CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${room}/*_avx512.cpp)
    file(GLOB avx2 CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${room}/*_avx2.cpp)
    file(GLOB scalar CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${room}/*_scalar.cpp)
    set(level "-O3")
    if(room STREQUAL "device/vgpu/exec")
      set(level "${vectorize}")
    endif()
    set_source_files_properties(${avx512} PROPERTIES COMPILE_OPTIONS
      "${level};-fno-trapping-math;-fno-math-errno;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512cd;-mavx2;-mfma;-mf16c;-mbmi2;-mprefer-vector-width=512;${quiet}")
    set_source_files_properties(${avx2} PROPERTIES COMPILE_OPTIONS
      "${level};-fno-trapping-math;-fno-math-errno;-mavx2;-mfma;-mf16c;-mbmi2;${quiet}")
    set_source_files_properties(${scalar} PROPERTIES COMPILE_OPTIONS
      "${level};-fno-trapping-math;-fno-math-errno;${quiet}")
  endforeach()
endfunction()
