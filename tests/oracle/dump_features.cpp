// dump_features KIND SAMPLES FEATURES: the log-mel features of all utterances of a file, as one
// pack. Both files are safetensors: samples.U fp32 [samples] in, features.U fp32 [frames, mels]
// out. `make oracle` compares them with those of public implementations.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "sotto/core/formats/safetensors.h"
#include "sotto/kernels/features/log_mel.h"

namespace {

using namespace sotto;  // NOLINT: a program of one file
using kernels::LogMel;
using kernels::LogMelOptions;
using kernels::Packing;

void dump(std::string_view kind, const std::string& from, const std::string& to) {
  const SafetensorsFile file = SafetensorsFile::open(from);
  std::vector<at::Tensor> waves;
  std::vector<int64_t> lengths;
  while (const TensorView* view = file.find(fmt::format("samples.{}", waves.size()))) {
    waves.push_back(at::empty(view->shape, at::kFloat));
    std::memcpy(waves.back().mutable_data_ptr(), view->bytes.data(), view->bytes.size());
    lengths.push_back(waves.back().numel());
  }
  const LogMelOptions options = LogMelOptions::of_kind(value_of(kind, kernels::kLogMelKinds));
  const Packing samples(lengths, at::kCPU);
  const at::Tensor features =
      LogMel::forward(at::cat(waves), samples, LogMel::Tables(options, at::kCPU));
  const std::vector<at::Tensor> parts =
      features.split_with_sizes(LogMel::frame_lengths(samples, options));
  std::vector<SafetensorsEntry> entries;
  for (const at::Tensor& part : parts) {
    entries.push_back({.name = fmt::format("features.{}", entries.size()),
                       .shape = part.sizes().vec(),
                       .bytes = {static_cast<const std::byte*>(part.const_data_ptr()),
                                 static_cast<size_t>(part.nbytes())}});
  }
  write_safetensors(to, entries);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: dump_features KIND SAMPLES FEATURES\n");
    return 2;
  }
  try {
    dump(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "dump_features: {}\n", error.what());
    return 2;
  }
  return 0;
}
