# What the folders' CMakeLists.txt use.

# fth_sources(FILE...): add sources of this folder to the library.
function(fth_sources)
  foreach(file ${ARGN})
    set_property(GLOBAL APPEND PROPERTY FTH_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
endfunction()

# fth_bench(FILE...): add benchmarks of this folder to the command `fathom`.
function(fth_bench)
  foreach(file ${ARGN})
    set_property(GLOBAL APPEND PROPERTY FTH_BENCH_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
endfunction()

# fth_test(NAME SOURCES FILE... [LIBS LIB...] [ARGS ARG...] [TIMEOUT SECONDS] [CONCURRENT]):
# a cmocka program that is one ctest. CONCURRENT tests run under ThreadSanitizer as well. Tests
# are collected, because they link the library that is made of all folders.
function(fth_test name)
  cmake_parse_arguments(T "CONCURRENT" "TIMEOUT" "SOURCES;LIBS;ARGS" ${ARGN})
  if(NOT BUILD_TESTING)
    return()
  endif()
  list(TRANSFORM T_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                             ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${T_LIBS} fathom_static PkgConfig::CMOCKA)
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77)
  if(T_CONCURRENT)
    set_tests_properties(${name} PROPERTIES LABELS concurrent)
  endif()
endfunction()
