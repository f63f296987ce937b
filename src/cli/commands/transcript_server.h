// `sotto transcribe --serve`: one process that transcribes whatever another program asks for.
// docs/events.md describes requests and answers.
#pragma once

#include <iosfwd>

#include "sotto/train/recognition/recogniser.h"

namespace sotto::cli {

// Answers one request per line until the input ends. A request that cannot be fulfilled gets an
// error as its answer. Throws what is not the fault of a request.
void serve_transcripts(train::Recogniser& recogniser, const train::TranscribeOptions& windows,
                       std::istream& requests, std::ostream& answers);

}  // namespace sotto::cli
