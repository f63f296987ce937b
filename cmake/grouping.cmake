# How sources are compiled: in groups, and after headers that were compiled once. Reading LibTorch's and nlohmann's headers
# takes most of a small file's time. The preset `tidy` compiles each file by itself, so that an include that is missing
# is still found.

# A group of sources leaves little for the compiler's garbage collection to free: up to 1 GB it is not tried.
add_compile_options("$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:SHELL:--param ggc-min-heapsize=1000000 --param ggc-min-expand=100>")

# sotto_compile_in_groups(TARGET SIZE): compiles SIZE files of TARGET at a time. Names in anonymous namespaces must then
# differ within a group. Who is in a group is decided by the files on the disk, not by those that this machine
# compiles: what builds here builds elsewhere. Versions for a processor, a GPU, or for where a library is missing are
# compiled by themselves; so is, by CMake, a file with compile options of its own.
function(sotto_compile_in_groups target size)
  if(NOT SOTTO_UNITY)
    return()
  endif()
  file(GLOB_RECURSE files LIST_DIRECTORIES false ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER files EXCLUDE REGEX "_(x86_64|aarch64|cuda|none)\\.cpp$")
  list(SORT files)
  set(last_module "")
  set(index 0)
  foreach(file ${files})
    file(RELATIVE_PATH name ${CMAKE_CURRENT_SOURCE_DIR} ${file})
    string(REGEX MATCH "^(sotto/)?[^/]+/" module "${name}")
    # A new file moves those after it to other groups: at most those of its module.
    if(NOT module STREQUAL last_module)
      set(last_module "${module}")
      set(index 0)
    endif()
    math(EXPR group "${index} / ${size}")
    math(EXPR index "${index} + 1")
    string(MAKE_C_IDENTIFIER "${module}${group}" group)
    set_source_files_properties(${file} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# sotto_precompile(TARGET HEADER...): headers, written as <ATen/ATen.h>, that are compiled once for TARGET.
function(sotto_precompile target)
  if(SOTTO_PCH)
    foreach(header ${ARGN})
      string(REPLACE ">" "$<ANGLE-R>" header ${header})
      target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${header}>)
    endforeach()
  endif()
endfunction()

# sotto_compile_quickly(TARGET): with fewer optimisations, in three quarters of the time. For code that only calls what
# computes: the commands and the tests.
function(sotto_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:RelWithDebInfo>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

# sotto_precompiled_as(TARGET OTHER): TARGET has the compile options of OTHER and uses its precompiled headers.
function(sotto_precompiled_as target other)
  if(SOTTO_PCH)
    target_precompile_headers(${target} REUSE_FROM ${other})
  endif()
endfunction()
