# The files of catalogue/ as text in a source file, so that the program needs none of them at run time.
file(GLOB catalogue_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/catalogue/devices/*.toml
  ${CMAKE_SOURCE_DIR}/catalogue/clusters/*.toml)
set(CATALOGUE_ENTRIES "")
foreach(file ${catalogue_files})
  # A changed file configures again.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  get_filename_component(name ${file} NAME_WE)
  get_filename_component(kind ${file} DIRECTORY)
  get_filename_component(kind ${kind} NAME)
  string(APPEND CATALOGUE_ENTRIES "    {\"${kind}\", \"${name}\", R\"toml(${text})toml\"},\n")
endforeach()
configure_file(${CMAKE_SOURCE_DIR}/cmake/catalogue_files.cc.in
  ${CMAKE_BINARY_DIR}/generated/catalogue_files.cc @ONLY)
