// Charts of one run, and of several runs side by side. A figure whose drawing has no width has
// nothing to show: the run has not recorded it.
#pragma once

#include <span>

#include "sotto/report/run_content.h"
#include "sotto/report/svg.h"

namespace sotto::report {

Figure loss_figure(const RunContent& run);
Figure quality_figure(const RunContent& run);
Figure rate_figure(const RunContent& run);
Figure gradient_figure(const RunContent& run);
Figure memory_figure(const RunContent& run);
Figure category_figure(const RunContent& run);
Figure timeline_figure(const RunContent& run);
Figure step_time_figure(const RunContent& run);
Figure throughput_figure(const RunContent& run);
Figure run_time_figure(const RunContent& run);
Figure padding_figure(const RunContent& run);

// The timeline of any step: of a run, of a plan. Empty where there is none.
Figure step_timeline_figure(const StepMemory& memory);

// The figures of one run that have something to show.
std::vector<Figure> figures_of(const RunContent& run);
// Those of a comparison.
std::vector<Figure> comparison_figures(std::span<const RunContent> runs);

inline bool is_empty(const Figure& figure) {
  return figure.drawing.width() <= 0.0;
}

}  // namespace sotto::report
