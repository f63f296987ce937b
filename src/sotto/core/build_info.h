// Describes this binary: printed by `sotto --version` and written into run records.
#pragma once

#include <string>

namespace sotto {

struct BuildInfo {
  std::string version;
  // Git commit, followed by "+changes" if the work tree differed from it.
  std::string commit;
  std::string torch;
  // CUDA toolkit and architectures, or "off" with the reason.
  std::string cuda;
  std::string audio;
  // Which of the text libraries utf8proc and SentencePiece were linked.
  std::string text;
  // Instruction set the CPU kernels were compiled for: "x86-64-v3" or "baseline".
  std::string cpu_level;
};

BuildInfo build_info();

}  // namespace sotto
