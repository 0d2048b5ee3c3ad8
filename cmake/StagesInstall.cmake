# `cmake --install`: the programs; and the matrix library with its public headers, for
#
#   find_package(sparse_stages 0.2 COMPONENTS matrix)
#   target_link_libraries(mine PRIVATE sparse_stages::matrix)
#
# (cmake --install BUILD --component matrix leaves the programs out); or, without installing, add_subdirectory(sparse-stages) and the same second line. Headers keep the names that they have
# here: #include "common/matrix/types.hpp".
set_target_properties(stages_matrix PROPERTIES EXPORT_NAME matrix)
add_library(sparse_stages::matrix ALIAS stages_matrix)
target_compile_features(stages_matrix PUBLIC cxx_std_20)

set(STAGES_PUBLIC_HEADERS builtin.hpp byte_source.hpp convert.hpp error.hpp generate.hpp matrix_market.hpp statistics.hpp types.hpp)

if(STAGES_INSTALL)
  include(GNUInstallDirs)
  include(CMakePackageConfigHelpers)
  # Libraries that are not in the system's own places, such as conda's, are found by what is installed, too.
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
  set(headers ${STAGES_PUBLIC_HEADERS})
  list(TRANSFORM headers PREPEND common/matrix/)
  set(config ${CMAKE_INSTALL_LIBDIR}/cmake/sparse_stages)
  install(TARGETS stages_matrix EXPORT sparse_stages_matrix
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT matrix)
  install(FILES ${headers} DESTINATION include/sparse_stages/common/matrix COMPONENT matrix)
  install(EXPORT sparse_stages_matrix NAMESPACE sparse_stages:: DESTINATION ${config} COMPONENT matrix)
  configure_package_config_file(cmake/sparse_stagesConfig.cmake.in ${PROJECT_BINARY_DIR}/sparse_stagesConfig.cmake
    INSTALL_DESTINATION ${config})
  # While the first number is 0, the second one counts what is no longer as it was.
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/sparse_stagesConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/sparse_stagesConfig.cmake ${PROJECT_BINARY_DIR}/sparse_stagesConfigVersion.cmake
    DESTINATION ${config} COMPONENT matrix)
  install(FILES LICENSE DESTINATION share/doc/sparse_stages COMPONENT matrix)
endif()

function(stages_install_programs)
  if(STAGES_INSTALL)
    install(TARGETS stages ${STAGES_STEPS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
  endif()
endfunction()
