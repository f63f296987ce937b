// Configurations in YAML, and settings of the command line.
#include "fuzz/fuzz_target.h"
#include "support/reader_checks.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  return {format_yaml(write_options(SampleOptions{})),
          "# comment\nname: 'it''s'\ntrain: [a, \"b\\n\", c]\nmodel: {layers: 3, dropout: .5}\n",
          "tiers:\n  - none\n  - block\nmemory: 90%\nsave_every: 1h30min\n---\n",
          "text: |\n  lines\n  of text\nother: >-\n  folded\n  text\n",
          "model.layers=3",
          "train=[a, b]"};
}

void read(std::string_view input) {
  const std::filesystem::path path = file_of(input);
  allow_refusal(path, [&] { test::check_config(path); });
  allow_refusal("--set", [&] { load_overrides({std::string(input)}); });
}

}  // namespace sotto::fuzz
