// What stands in the records of TensorBoard's event files: its messages Event, Summary and
// SessionLog in the form that protobuf gives them
// (https://protobuf.dev/programming-guides/encoding). By hand: they have nine fields, and the
// library of SentencePiece brings a protobuf of another version into the process, with which one of
// ours would clash (decision 13).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sotto {

// A number of a step under the name that TensorBoard shows; written as fp32.
struct Scalar {
  std::string_view tag;
  double value = 0.0;
};

// Each happened at a time in seconds since 1970.

// The first of a file.
std::string file_version_message(double time_s);

// What earlier files say of this step and those behind it is void: a run was resumed before it.
std::string session_start_message(double time_s, int64_t step);

std::string scalars_message(double time_s, int64_t step, std::span<const Scalar> scalars);

}  // namespace sotto
