// What the fuzz programs share. Each is one file with the two functions below; libFuzzer (in clang)
// changes the seeds and whatever came of them, and follows the branches that are taken. A finding
// is an exception that is no refusal of ours, a report of a sanitizer, an input that takes seconds
// or too much memory.
//
//   build-fuzz/bin/fuzz_npy FOLDER        goes on for ever with the inputs of a folder; seeds are
//                                         put there first
//   build-fuzz/bin/fuzz_npy crash-0123    reads one input again
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::fuzz {

// --- what a program has

// Inputs that are as they should be.
std::vector<std::string> seeds();

// Calls the reader, in as many ways as there are. The input lies in memory of just its size.
void read(std::string_view input);

// --- what it may use

// A file that holds these bytes until the next call. It lies in memory, and where it is mapped that
// is a copy of just its size.
std::filesystem::path file_of(std::string_view bytes);

// Calls the reader; it may refuse what it reads with a DataError or a ConfigError that names it.
void allow_refusal(const std::filesystem::path& name, const std::function<void()>& call);

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace sotto::fuzz
