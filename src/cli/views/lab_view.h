// Output of a suite for the user: which experiment runs, its progress and its result, then the
// tables.
#pragma once

#include <string>

#include "cli/views/progress.h"
#include "sotto/lab/lab_run.h"

namespace sotto::cli {

// Event handlers that print to standard error; the view must outlive the suite.
class LabView {
 public:
  LabView() : bar_("training") {}

  lab::SuiteEvents events();

 private:
  void line(const std::string& text);

  Progress bar_;
};

// Formats the tables and the analysis for the terminal.
std::string comparison_text(const lab::Comparison& comparison);

// Formats the result of one experiment in one line.
std::string describe(const lab::Result& result);

}  // namespace sotto::cli
