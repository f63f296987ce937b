// Records of runs.
#include "fuzz/fuzz_target.h"
#include "sotto/core/files/run_record.h"
#include "support/reader_checks.h"

namespace sotto::fuzz {

std::vector<std::string> seeds() {
  const std::string header = "{\"format_version\":1,\"kind\":\"run_record\"}\n";
  return {header + "{\"step\": 1, \"loss\": \"nan\"}\n{\"step\": 2, \"loss\": 0.5}\n{\"st",
          header.substr(0, 20)};
}

void read(std::string_view input) {
  const std::filesystem::path path = file_of(input);
  allow_refusal(path, [&] {
    for (const nlohmann::json& record : read_run_record(path).records)
      test::expect_promise(record.is_object(), "a record is an object");
  });
}

}  // namespace sotto::fuzz
