# What the folders' CMakeLists.txt use.

# fth_sources(FILE...): add sources of this folder to the library.
function(fth_sources)
  foreach(file ${ARGN})
    set_property(GLOBAL APPEND PROPERTY FTH_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
endfunction()

# fth_hidden(TARGET...): only what public headers declare (FTH_BEGIN_DECLS) is visible from outside.
function(fth_hidden)
  set_target_properties(${ARGN} PROPERTIES C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
                        CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# fth_archive(NAME FILE TARGET...): lib<FILE>.a of the objects of TARGETs, as it is installed. The
# objects become one, in which hidden symbols are local: names that are not public, such as
# cache_prepare(), neither clash with a program's own nor are taken for them.
function(fth_archive name file)
  set(objects ${ARGN})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  set(one ${CMAKE_CURRENT_BINARY_DIR}/${file}.o)
  add_custom_command(
    OUTPUT ${one}
    COMMAND ${CMAKE_LINKER} -r -o ${one} ${objects}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${one}
    DEPENDS ${objects}
    COMMENT "Making ${file}.o, in which only public symbols are global"
    VERBATIM COMMAND_EXPAND_LISTS)
  set_source_files_properties(${one} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  add_library(${name} STATIC ${one})
  add_dependencies(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES OUTPUT_NAME ${file} LINKER_LANGUAGE C)
endfunction()

# Builds all that `ctest --label-regex concurrent` runs, and nothing else.
add_custom_target(concurrent_tests)

option(FTH_LONG_TESTS "Give tests the time that their long versions need; make check-long sets it" OFF)

# fth_test_properties(NAME SECONDS LABEL...): what all tests share. SECONDS is ample on a quiet machine; the limit
# only ends a test that hangs, so it is five times that, for busy machines. Sanitizers are slow: there a test gets more time. Label `concurrent`: runs under ThreadSanitizer as well; `once`: looks at
# files, not at code that runs, so the plain build's run is enough.
function(fth_test_properties name seconds)
  if(NOT seconds)
    set(seconds 60)
  endif()
  math(EXPR seconds "${seconds} * 5")
  if(FTH_SANITIZE)
    math(EXPR seconds "${seconds} * 4")
  endif()
  if(FTH_LONG_TESTS)
    set(seconds 7200)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds} SKIP_RETURN_CODE 77 LABELS "${ARGN}")
endfunction()

# fth_test(NAME SOURCES FILE... [LIBS LIB...] [ARGS ARG...] [TIMEOUT SECONDS] [CONCURRENT]):
# a cmocka program that is one ctest. CONCURRENT tests run under ThreadSanitizer as well.
function(fth_test name)
  cmake_parse_arguments(T "CONCURRENT" "TIMEOUT" "SOURCES;LIBS;ARGS" ${ARGN})
  if(NOT BUILD_TESTING)
    return()
  endif()
  list(TRANSFORM T_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                             ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${T_LIBS} fathom_internal PkgConfig::CMOCKA)
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS})
  if(T_CONCURRENT)
    fth_test_properties(${name} "${T_TIMEOUT}" concurrent)
    add_dependencies(concurrent_tests ${name})
  else()
    fth_test_properties(${name} "${T_TIMEOUT}")
  endif()
endfunction()

# fth_pm_explore_test(NAME SOURCES FILE... [TIMEOUT SECONDS]): a fth_test() of the crash explorer of src/pm. Its
# sources, and those of src/pm, are compiled with FTH_PM_TRACE.
function(fth_pm_explore_test name)
  fth_test(${name} ${ARGN})
  if(BUILD_TESTING)
    target_compile_definitions(${name} PRIVATE FTH_PM_TRACE)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:fathom_pm_traced>)
  endif()
endfunction()

# fth_script_test(NAME COMMAND WORD... [TIMEOUT SECONDS] [LABEL once|concurrent]): any command
# that is one ctest; it runs in the source root. A concurrent one runs one of the two programs.
function(fth_script_test name)
  cmake_parse_arguments(T "" "TIMEOUT;LABEL" "COMMAND" ${ARGN})
  if(NOT BUILD_TESTING)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${T_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  fth_test_properties(${name} "${T_TIMEOUT}" ${T_LABEL})
  if(T_LABEL STREQUAL "concurrent")
    add_dependencies(concurrent_tests fathom fathom-bench)
  endif()
endfunction()

# fth_example(NAME SOURCE): a program of this folder that uses the public headers and the archive as
# it is installed.
function(fth_example name source)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE fathom_static)
endfunction()

# fth_device_test(NAME SOURCES FILE... [LIBS LIB...] [TIMEOUT SECONDS]): a CUDA program that is one
# ctest. Built where nvcc is, and skipped (77) by itself where there is no GPU. Its name ends with
# _device_test, by which scripts/gpu.sh finds it, and no other test's does.
function(fth_device_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LIBS" ${ARGN})
  if(NOT BUILD_TESTING OR NOT CMAKE_CUDA_COMPILER_LOADED)
    return()
  endif()
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                             ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${T_LIBS})
  add_test(NAME ${name} COMMAND ${name})
  fth_test_properties(${name} "${T_TIMEOUT}" gpu)
endfunction()

# fth_fake_cuda_test(NAME SOURCES FILE... LIBS LIB...): a fth_test() of the host's side of device code,
# built where nvcc is, on a stand-in for CUDA's runtime.
function(fth_fake_cuda_test name)
  if(NOT BUILD_TESTING OR NOT CMAKE_CUDA_COMPILER_LOADED)
    return()
  endif()
  fth_test(${name} ${ARGN})
  target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/gpu/fake_cuda_fixture.c)
  target_include_directories(${name} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX CUDA_RUNTIME_LIBRARY None)
endfunction()

option(FTH_LIBFUZZER "Link the fuzz targets with libFuzzer (clang) instead of our own driver" OFF)
if(FTH_LIBFUZZER)
  # The library too, so that the fuzzer sees which of its branches an input takes.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# fth_fuzz(NAME SOURCES FILE... [LIBS LIB...] CORPUS DIRECTORY [RUNS N] [TIMEOUT SECONDS]): a fuzz target, that is
# a program around LLVMFuzzerTestOneInput(), and a ctest that runs its corpus and a few mutations
# of it. With -DFTH_LIBFUZZER=ON run it by hand for as long as you like:
# tests/fuzz/NAME -max_total_time=600 NEW_CORPUS_DIRECTORY ../tests/fuzz/corpus/NAME
function(fth_fuzz name)
  cmake_parse_arguments(F "" "CORPUS;RUNS;TIMEOUT" "SOURCES;LIBS" ${ARGN})
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(NOT F_RUNS)
    set(F_RUNS 2000)
  endif()
  if(NOT F_TIMEOUT)
    set(F_TIMEOUT 60)
  endif()
  get_filename_component(corpus ${F_CORPUS} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
  add_executable(${name} ${F_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                             ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${F_LIBS} fathom_internal)
  if(FTH_LIBFUZZER)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -runs=${F_RUNS} ${corpus})
  else()
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/standalone_main.c)
    add_test(NAME ${name} COMMAND ${name} --runs ${F_RUNS} ${corpus})
  endif()
  fth_test_properties(${name} ${F_TIMEOUT} fuzz)
endfunction()
