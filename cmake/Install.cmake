# What `make install` puts where: headers, both libraries, fathom.pc, man pages, the tool and what it
# starts.
install(TARGETS fathom fathom_static fathom_shared
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS fathom-bench RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/fathom)
if(TARGET fathom_cuda)
  install(TARGETS fathom_cuda_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/fathom DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h")
install(FILES man/fathom.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# Written when installing, since only then is the prefix known (cmake --install --prefix).
install(CODE "
  set(PROJECT_VERSION ${PROJECT_VERSION})
  set(LIBDIR ${CMAKE_INSTALL_LIBDIR})
  set(INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
  configure_file(\"${PROJECT_SOURCE_DIR}/fathom.pc.in\" \"${PROJECT_BINARY_DIR}/fathom.pc\" @ONLY)
")
install(FILES ${PROJECT_BINARY_DIR}/fathom.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
