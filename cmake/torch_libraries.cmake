# What linking against LibTorch's wheel takes. Installed too: programs of others link as we do (sottoConfig.cmake).
# sotto_torch_libraries(TARGET FOLDER NAME...): libraries of the torch package in FOLDER, for an INTERFACE target.
function(sotto_torch_libraries target folder)
  foreach(name ${ARGN})
    add_library(torch::${name} SHARED IMPORTED)
    set_target_properties(torch::${name} PROPERTIES IMPORTED_LOCATION ${folder}/lib/lib${name}.so)
    target_link_libraries(${target} INTERFACE torch::${name})
  endforeach()
  # LibTorch and we must share one C++ library. Where a compiler's own link to it is broken, the static one would be taken
  # without a word, and the program would abort at exit.
  target_link_libraries(${target} INTERFACE -l:libstdc++.so.6)
  # The wheel's libraries find their CUDA runtime beside them when loaded; the linker need not. OpenMP is the wheel's too.
  target_link_options(${target} INTERFACE -Wl,--allow-shlib-undefined -fopenmp)
  if(torch_cuda IN_LIST ARGN)
    # No symbol of ours names libtorch_cuda.so, yet its kernels register themselves when it is loaded.
    target_link_options(${target} INTERFACE -Wl,--no-as-needed)
  endif()
endfunction()
