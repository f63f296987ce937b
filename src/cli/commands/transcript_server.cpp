#include "cli/commands/transcript_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "cli/commands/failure.h"
#include "cli/views/json_text.h"
#include "sotto/core/build_info.h"
#include "sotto/core/error.h"
#include "sotto/decode/transcript_files.h"

namespace sotto::cli {

namespace {

constexpr int64_t kFormatVersionOfServing = 1;
constexpr int kFaultOfSotto = 70;
constexpr const char* kFileKey = "audio_filepath";

std::string file_of(const nlohmann::json& request) {
  if (request.is_object() && request.contains(kFileKey) && request.at(kFileKey).is_string())
    return request.at(kFileKey);
  throw ConfigError(
      {.attempted = "reading a request",
       .found = request.is_discarded()
                    ? "a line that is not JSON"
                    : request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
       .expected = R"(an object such as {"id": 1, "audio_filepath": "a.wav"})"});
}

nlohmann::ordered_json answer_to(const nlohmann::json& request, train::Recogniser& recogniser,
                                 const train::TranscribeOptions& windows) {
  try {
    const std::string file = file_of(request);
    return decode::to_json(recogniser.transcribe(file, windows), file);
  } catch (...) {
    const Failure failure = describe_current_exception();
    if (failure.exit_code == kFaultOfSotto) throw;
    return {{"failure", failure_json(failure)}};
  }
}

}  // namespace

void serve_transcripts(train::Recogniser& recogniser, const train::TranscribeOptions& windows,
                       std::istream& requests, std::ostream& answers) {
  const nlohmann::ordered_json ready = {{"ready", true},
                                        {"format_version", kFormatVersionOfServing},
                                        {"version", build_info().version},
                                        {"pid", getpid()},
                                        {"checkpoint", recogniser.folder().string()}};
  answers << json_text(ready, -1) << std::flush;
  for (std::string line; answers && std::getline(requests, line);) {
    const auto request = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    nlohmann::ordered_json answer = answer_to(request, recogniser, windows);
    if (request.is_object() && request.contains("id")) answer["id"] = request.at("id");
    answers << json_text(answer, -1) << std::flush;
  }
}

}  // namespace sotto::cli
