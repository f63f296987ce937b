// Configurations in JSON, and JSON objects in files that others made.
#include <nlohmann/json.hpp>

#include "fuzz/fuzz_target.h"
#include "sotto/core/files/json_object.h"
#include "support/reader_checks.h"
#include "support/temp_folder.h"

namespace sotto::fuzz {

namespace {

// A configuration is JSON by its name.
std::filesystem::path named_file_of(std::string_view input) {
  static const test::TempFolder folder;
  std::filesystem::path link = folder.path() / "config.json";
  const std::filesystem::path file = file_of(input);
  if (!std::filesystem::is_symlink(link)) std::filesystem::create_symlink(file, link);
  return link;
}

}  // namespace

std::vector<std::string> seeds() {
  return {format_json(write_options(SampleOptions{})),
          R"({"name": "ö\ud83d\ude00\n", "train": []})",
          R"([{"a": [1e5, -0, 0.5, true, null]}, ""])"};
}

void read(std::string_view input) {
  const std::string text(input);
  allow_refusal("text", [&] { test::check_json(text, "text"); });
  const std::filesystem::path path = named_file_of(input);
  allow_refusal(path, [&] { test::check_config(path); });
  allow_refusal("index.json", [&] {
    const std::filesystem::path path = "index.json";
    shown(parse_json_object(text, {.path = path, .part = "it", .expected = "an index"}));
  });
}

}  // namespace sotto::fuzz
