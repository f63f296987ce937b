// Content of the records of TensorBoard's event files: its messages Event, Summary and SessionLog
// in protobuf's wire format (https://protobuf.dev/programming-guides/encoding). Encoded by hand,
// because they have only nine fields, and the SentencePiece library loads a protobuf of another
// version into the process, which would conflict with ours (decision 13).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sotto {

// A scalar of one step under the name that TensorBoard shows; written as fp32.
struct Scalar {
  std::string_view tag;
  double value = 0.0;
};

// All times are in seconds since 1970.

// Returns the first message of a file.
std::string file_version_message(double time_s);

// Returns the message that voids the values of earlier files for this and later steps, because a
// run was resumed before this step.
std::string session_start_message(double time_s, int64_t step);

std::string scalars_message(double time_s, int64_t step, std::span<const Scalar> scalars);

}  // namespace sotto
