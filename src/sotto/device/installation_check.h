// Judges an installation: what would stop training, what limits it, and the command that helps.
#pragma once

#include <string>
#include <vector>

#include "sotto/device/installation.h"

namespace sotto::device {

struct Check {
  // Problems stop training; warnings limit it.
  enum class Verdict { kOk, kWarning, kProblem };

  // What was checked: "driver", "GPU 0".
  std::string subject;
  std::string found;
  Verdict verdict = Verdict::kOk;
  // A command, or a short sentence where there is none; empty if there is nothing to do.
  std::string advice = {};
};

// Returns all checks in a fixed order: the build, the host, GPUs, folders, tools. A machine without
// a GPU is not a problem.
std::vector<Check> check_installation(const Installation& installation);

}  // namespace sotto::device
