#include "sotto/lab/comparison_files.h"

#include "sotto/core/files/atomic_folder.h"
#include "sotto/lab/comparison_page.h"
#include "sotto/lab/comparison_tables.h"

namespace sotto::lab {

void write_comparison(const std::filesystem::path& folder, const Comparison& comparison) {
  const std::string json =
      comparison_json(comparison).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  write_text_synced(folder / "experiment_summary.json", json + "\n");
  write_text_synced(folder / "comparison_report.txt", comparison_report(comparison));
  write_text_synced(folder / "report.html", comparison_page(comparison).to_html());
}

}  // namespace sotto::lab
