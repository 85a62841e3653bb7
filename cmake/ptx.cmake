# Kernels: kernels/<op>.cu -> PTX per generation, embedded as text. nvcc is a plain custom command:
# configuring needs no CUDA language and no toolkit beyond nvcc itself.
set(LOCKSTEP_GENERATIONS 80 90 CACHE STRING "generations that kernels are compiled for")
set(LOCKSTEP_NVCC "" CACHE FILEPATH "nvcc 13 or later (set by the wrapper script)")
if(NOT LOCKSTEP_NVCC)
  find_program(LOCKSTEP_NVCC_FOUND nvcc)
  set(LOCKSTEP_NVCC ${LOCKSTEP_NVCC_FOUND})
endif()
if(NOT LOCKSTEP_NVCC)
  message(FATAL_ERROR "nvcc 13 is missing: run ./lockstep, which installs it, or set LOCKSTEP_NVCC")
endif()

# lockstep_ptx(OUTPUT_LIST_VARIABLE PREFIX FILES...): one rule per file and generation.
function(lockstep_ptx result prefix)
  set(outputs)
  foreach(file ${ARGN})
    get_filename_component(stem ${file} NAME_WE)
    foreach(sm ${LOCKSTEP_GENERATIONS})
      # <op>_sm_90.cu is a variant for one generation.
      if(stem MATCHES "_sm_([0-9]+)$" AND NOT CMAKE_MATCH_1 EQUAL sm)
        continue()
      endif()
      set(output ${CMAKE_BINARY_DIR}/ptx/${prefix}/${stem}.sm_${sm}.ptx)
      add_custom_command(OUTPUT ${output}
        COMMAND ${LOCKSTEP_NVCC} -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -ptx -arch=sm_${sm}
                -fmad=false -lineinfo -I ${CMAKE_SOURCE_DIR} -Werror all-warnings
                -MD -MF ${output}.d -o ${output} ${file}
        DEPENDS ${file} DEPFILE ${output}.d COMMENT "PTX ${stem} sm_${sm}" VERBATIM)
      list(APPEND outputs ${output})
    endforeach()
  endforeach()
  set(${result} ${outputs} PARENT_SCOPE)
endfunction()

function(lockstep_kernels)
  file(GLOB cuda CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.cu)
  lockstep_ptx(ptx kernels ${cuda})
  set(embedded ${CMAKE_BINARY_DIR}/ptx/embedded_ptx.cpp)
  add_custom_command(OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded} "-DPTX=${ptx}" -DROOT=${CMAKE_SOURCE_DIR}
            -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${ptx} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  lockstep_room(kernels LINKS base model trace device EXTRA_SOURCES ${embedded})
endfunction()
