# sotto_torch: LibTorch out of the PyPI wheel, as imported targets declared by hand. The wheel's own find_package(Torch)
# demands a CUDA toolkit even for a CPU build, and libtorch.so would pull in every CUDA library.
set(SOTTO_TORCH_WANTED 2.11)
set(torch_folder ${SOTTO_TORCH})
if(NOT torch_folder AND EXISTS ${CMAKE_SOURCE_DIR}/.deps/torch)
  file(STRINGS ${CMAKE_SOURCE_DIR}/.deps/torch torch_folder)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/.deps/torch)
endif()
if(NOT EXISTS ${torch_folder}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "LibTorch was not found at '${torch_folder}'. Run tools/setup.sh, or give the folder of an installed "
                      "torch package with -DSOTTO_TORCH=PATH.")
endif()
file(STRINGS ${torch_folder}/include/torch/headeronly/version.h version_line REGEX "^ *\"[0-9.]+\"")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" SOTTO_TORCH_VERSION "${version_line}")
if(NOT SOTTO_TORCH_VERSION MATCHES "^2\\.11\\.")
  message(FATAL_ERROR "${torch_folder} is torch '${SOTTO_TORCH_VERSION}', expected ${SOTTO_TORCH_WANTED}. "
                      "docs/upgrading_torch.md says what another version needs.")
endif()

include(torch_libraries)
add_library(sotto_torch INTERFACE)
sotto_torch_libraries(sotto_torch ${torch_folder} torch_cpu c10)
# The wheel ships an fmt of its own among its headers, of another version than the distribution's that spdlog and we link:
# a folder that holds nothing but the distribution's fmt goes before it.
find_path(FMT_INCLUDE fmt/format.h)
set(fmt_first ${CMAKE_BINARY_DIR}/fmt_first)
file(MAKE_DIRECTORY ${fmt_first})
file(CREATE_LINK ${FMT_INCLUDE}/fmt ${fmt_first}/fmt SYMBOLIC)
target_include_directories(sotto_torch SYSTEM INTERFACE ${fmt_first} ${torch_folder}/include)

# at::parallel_for is a template over OpenMP: without it our loops would silently run on one core. At run time the
# wheel's own libgomp.so.1 is found first and serves both.
target_compile_options(sotto_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)

# sotto_cpu_level: the instruction set of the CPU kernels. On x86_64 that is AVX2, FMA and F16C (2013 and later); the
# program checks for it at start. aarch64 has NEON in its base.
add_library(sotto_cpu_level INTERFACE)
# Neither flag changes a value: they allow the compiler to compute both sides of a choice. The vectors of simd.h are
# never passed between translation units.
target_compile_options(sotto_cpu_level INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno;-fno-trapping-math;-Wno-psabi>)
set(SOTTO_CPU_LEVEL "baseline")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(SOTTO_CPU_LEVEL "x86-64-v3")
  target_compile_options(sotto_cpu_level INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v3>)
endif()
