# `cmake --install`: bin/sotto and the LibTorch libraries it loads, laid out as in the wheel, so that the tree can be moved;
# and, as the component `development` by itself, the library for programs of others (find_package(sotto)).
set_target_properties(sotto_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/sotto/torch/lib")
install(TARGETS sotto_cli RUNTIME DESTINATION bin)
# Everything beside libtorch_cpu.so that it may load (aarch64 has its BLAS there), less the CUDA and Python parts.
file(GLOB torch_libraries ${torch_folder}/lib/*.so ${torch_folder}/lib/*.so.[0-9]*)
set(nvidia_patterns "cu13/lib/libcudart.so.*" "cu13/lib/libcupti.so.*")
set(left_out "libtorch_python|libtorch_global_deps|libtorch\\.so|libshm|libcaffe2_nvrtc")
if(SOTTO_CUDA_ENABLED)
  set(nvidia_patterns "*/lib/*.so*")
else()
  string(APPEND left_out "|libtorch_cuda|libc10_cuda|libtorch_nvshmem")
endif()
list(FILTER torch_libraries EXCLUDE REGEX "/(${left_out})[^/]*$")
install(FILES ${torch_libraries} DESTINATION lib/sotto/torch/lib)
foreach(pattern ${nvidia_patterns})
  file(GLOB found RELATIVE ${torch_folder}/.. ${torch_folder}/../nvidia/${pattern})
  foreach(name ${found})
    get_filename_component(folder ${name} DIRECTORY)
    install(FILES ${torch_folder}/../${name} DESTINATION lib/sotto/${folder})
  endforeach()
endforeach()

# Public is sotto.h and the errors that it names. The targets besides the two libraries are what they link.
install(FILES ${CMAKE_SOURCE_DIR}/src/sotto/sotto.h DESTINATION include/sotto COMPONENT development)
install(FILES ${CMAKE_SOURCE_DIR}/src/sotto/core/error.h DESTINATION include/sotto/core COMPONENT development)
install(TARGETS sotto sotto_base sotto_audio sotto_text sotto_cuda sotto_cpu_level sotto_sanitizers sotto_warnings
  EXPORT sotto ARCHIVE DESTINATION lib COMPONENT development)
set(package lib/cmake/sotto)
install(EXPORT sotto NAMESPACE sotto:: FILE sottoTargets.cmake DESTINATION ${package} COMPONENT development)
include(CMakePackageConfigHelpers)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/sottoConfig.cmake.in ${CMAKE_BINARY_DIR}/sottoConfig.cmake
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/sottoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/sottoConfig.cmake ${CMAKE_BINARY_DIR}/sottoConfigVersion.cmake
  ${CMAKE_SOURCE_DIR}/cmake/torch_libraries.cmake DESTINATION ${package} COMPONENT development)
