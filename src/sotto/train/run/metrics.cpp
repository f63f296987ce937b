#include "sotto/train/run/metrics.h"

#include <fmt/format.h>

#include <utility>

#include "sotto/core/error.h"
#include "sotto/train/run/run_files.h"

namespace sotto::train {

Metrics::Metrics(const std::filesystem::path& folder, int64_t first_step, Warning warned,
                 Recorded recorded)
    : record_(RunRecord::open(folder / kMetricsFile)),
      events_(EventFile::begin(folder, first_step)),
      warned_(std::move(warned)),
      recorded_(std::move(recorded)) {
  record_.cut_back([&](const nlohmann::json& record) {
    const auto step = record.find("step");
    return step == record.end() || !step->is_number_integer() || step->get<int64_t>() < first_step;
  });
}

void Metrics::add(const nlohmann::json& record, const std::vector<Scalar>& scalars) {
  add_or_warn([&] {
    record_.append(record);
    if (!scalars.empty()) events_.add(record.at("step").get<int64_t>(), scalars);
  });
  if (recorded_) recorded_(record);
}

void Metrics::sync() {
  add_or_warn([&] { record_.sync(); });
}

void Metrics::add_or_warn(const std::function<void()>& write) {
  try {
    write();
    is_failing_ = false;
  } catch (const DataError& error) {
    if (!std::exchange(is_failing_, true) && warned_)
      warned_(fmt::format("the run continues without metrics: {}", error.what()));
  }
}

}  // namespace sotto::train
