# What `cmake --install` and the packages are made of, in components: program, library, headers.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tessera RUNTIME COMPONENT program)
install(TARGETS tessera_shared EXPORT tessera-targets
  LIBRARY COMPONENT library NAMELINK_COMPONENT headers)
install(DIRECTORY include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT headers
  FILES_MATCHING PATTERN "*.h")

# find_package(tessera) and pkg-config; neither knows where it lies, so a prefix can be moved.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(EXPORT tessera-targets NAMESPACE tessera:: DESTINATION ${package_folder} COMPONENT headers)
configure_package_config_file(cmake/tessera-config.cmake.in ${TESSERA_GENERATED}/tessera-config.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_FULL_BINDIR)
# Before 1.0 a minor version may change what a program meets.
write_basic_package_version_file(${TESSERA_GENERATED}/tessera-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${TESSERA_GENERATED}/tessera-config.cmake ${TESSERA_GENERATED}/tessera-config-version.cmake
  DESTINATION ${package_folder} COMPONENT headers)
file(RELATIVE_PATH TESSERA_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" TESSERA_PC_TO_PREFIX ${TESSERA_PC_TO_PREFIX})
configure_file(cmake/tessera.pc.in ${TESSERA_GENERATED}/tessera.pc @ONLY)
install(FILES ${TESSERA_GENERATED}/tessera.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT headers)
