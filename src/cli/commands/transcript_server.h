// `sotto transcribe --serve`: one process that transcribes whatever another program asks for.
// docs/events.md describes requests and answers.
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>

#include "sotto/train/recognition/recogniser.h"

namespace sotto::cli {

// The object of one file, as --json prints it.
nlohmann::ordered_json transcript_json(const std::string& file,
                                       const decode::Transcript& transcript);

// Answers one request per line until the input ends. A request that cannot be fulfilled gets an
// error as its answer. Throws what is not the fault of a request.
void serve_transcripts(train::Recogniser& recogniser, const train::TranscribeOptions& windows,
                       std::istream& requests, std::ostream& answers);

}  // namespace sotto::cli
