# What `make install` puts where: headers, libraries, the CMake package, the pkg-config files, man
# pages, the tool and what it starts.
include(CMakePackageConfigHelpers)

install(TARGETS fathom RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET fathom_flat_run)
  install(TARGETS fathom_flat_run LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS fathom-bench RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/fathom)
install(TARGETS fathom_file_heap LIBRARY DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/fathom)
install(FILES man/fathom.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES contrib/completion/fathom.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME fathom)
install(FILES contrib/completion/_fathom DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
# Section 3 is made from the comments of the public headers.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  file(GLOB_RECURSE public_headers CONFIGURE_DEPENDS include/*.h)
  set(man3 ${PROJECT_BINARY_DIR}/man3)
  add_custom_command(
    OUTPUT ${man3}/fathom.3
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${man3}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/header_docs.py man ${man3}
    DEPENDS ${public_headers} man/fathom.1 scripts/header_docs.py
    COMMENT "Making man pages from the public headers"
    VERBATIM)
  add_custom_target(man3 ALL DEPENDS ${man3}/fathom.3)
  install(DIRECTORY ${man3}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
else()
  message(STATUS "python3 is not here: building without the man pages of section 3")
endif()
# Units for systemd, for packagers and administrators to copy.
configure_file(contrib/fathom-kv.service.in ${PROJECT_BINARY_DIR}/fathom-kv.service @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/fathom-kv.service contrib/fathom-kv.socket
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fathom/systemd)
install(FILES include/fathom.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/fathom DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h")

# Libraries, as fathom::fathom, fathom::static and fathom::cuda for users of CMake.
set(libraries fathom_shared fathom_static)
set(FTH_HAS_CUDA OFF)
if(TARGET fathom_cuda_static)
  list(APPEND libraries fathom_cuda_static)
  set(FTH_HAS_CUDA ON)
endif()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/fathom)
install(TARGETS ${libraries} EXPORT fathom-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT fathom-targets NAMESPACE fathom:: DESTINATION ${package})
configure_package_config_file(cmake/fathom-config.cmake.in
                              ${PROJECT_BINARY_DIR}/fathom-config.cmake
                              INSTALL_DESTINATION ${package})
# What has to be built to be installed: no tests, no examples.
add_custom_target(installed DEPENDS fathom fathom-bench fathom_file_heap ${libraries})
if(TARGET fathom_flat_run)
  add_dependencies(installed fathom_flat_run)
endif()
if(TARGET man3)
  add_dependencies(installed man3)
endif()

# Before 1.0 the API may change with any minor version.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fathom-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fathom-config.cmake
              ${PROJECT_BINARY_DIR}/fathom-config-version.cmake DESTINATION ${package})

set(LZ4_REQUIRES "")
if(FTH_TABLE)
  set(LZ4_REQUIRES ", liblz4")
endif()
set(PACKED_REQUIRES "")
if(ZLIB_INCLUDE AND ZLIB_ARCHIVE)
  string(APPEND PACKED_REQUIRES ", zlib")
endif()
if(ZSTD_INCLUDE AND ZSTD_ARCHIVE)
  string(APPEND PACKED_REQUIRES ", libzstd")
endif()
set(PG_QUERY_LIBS "")
if(FTH_SQL)
  set(PG_QUERY_LIBS " -lpg_query")
endif()

# fth_pkgconfig(NAME): written when installing, since only then is the prefix known
# (cmake --install --prefix).
function(fth_pkgconfig name)
  install(CODE "
    set(PROJECT_VERSION ${PROJECT_VERSION})
    set(LIBDIR ${CMAKE_INSTALL_LIBDIR})
    set(INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
    set(LZ4_REQUIRES \"${LZ4_REQUIRES}\")
    set(PACKED_REQUIRES \"${PACKED_REQUIRES}\")
    set(PG_QUERY_LIBS \"${PG_QUERY_LIBS}\")
    set(CUDA_LIBDIR \"${CUDA_LIBDIR}\")
    configure_file(\"${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in\"
                   \"${PROJECT_BINARY_DIR}/${name}.pc\" @ONLY)
  ")
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
fth_pkgconfig(fathom)
if(FTH_HAS_CUDA)
  get_target_property(cudart CUDA::cudart_static IMPORTED_LOCATION)
  get_filename_component(CUDA_LIBDIR ${cudart} DIRECTORY)
  fth_pkgconfig(fathom-cuda)
endif()
