// Texts: whole files, their lines, UTF-8, sizes and durations.
#include "fuzz/fuzz_target.h"
#include "support/data_reader_checks.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  return {"\xEF\xBB\xBFöne two\r\n\n 1.5e3 \xF0\x9F\x98\x80 three", "8GiB", "90%", "1h30min"};
}

void read(std::string_view input) {
  const std::string text(input);
  const std::filesystem::path path = file_of(input);
  test::check_utf8(input);
  test::check_lines(path);
  allow_refusal(path, [&] { test::check_text_file(path, text); });
  allow_refusal("memory size", [&] { test::check_memory_size(text); });
  allow_refusal("duration", [&] { test::check_duration(text); });
}

}  // namespace sotto::fuzz
