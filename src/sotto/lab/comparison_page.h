// report.html of a suite: tables, charts and the written analysis.
#pragma once

#include "sotto/lab/comparison.h"
#include "sotto/report/page.h"

namespace sotto::lab {

report::Page comparison_page(const Comparison& comparison);

}  // namespace sotto::lab
