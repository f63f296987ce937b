// Files of named tensors as torch.save(state_dict) writes them: an uncompressed zip archive of a
// pickle, which names the tensors, and one file of values per tensor. torch.load(weights_only=True)
// reads them. The size is known before anything is written, so that one can be a part of another
// file.
//
//   const TorchWriter writer(entries, "model_weights");
//   out.write(header_for(writer.size()));
//   writer.write([&](auto bytes) { out.write(bytes); });
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/formats/safetensors.h"

namespace sotto {

// Takes the next bytes of a file.
using ByteSink = std::function<void(std::span<const std::byte>)>;

class TorchWriter {
 public:
  // `name` is that of the folder inside the archive: torch.save uses the file's name. Entries must
  // outlive the writer.
  TorchWriter(std::span<const SafetensorsEntry> entries, const std::string& name);

  // Returns the number of bytes that write() passes on.
  uint64_t size() const { return size_; }

  // Writes the file in order. `fetch`: see write_safetensors().
  void write(const ByteSink& sink, const FetchBytes& fetch = {}) const;

 private:
  struct Member {
    std::string name;
    // Content of a member that is not a tensor.
    std::string content = {};
    // Values of a tensor.
    std::span<const std::byte> values = {};
    bool is_tensor = false;
    uint64_t offset = 0;

    uint64_t size() const { return is_tensor ? values.size() : content.size(); }
  };

  void add(Member member);

  std::vector<Member> members_;
  // Bytes of the members, and of everything.
  uint64_t members_size_ = 0;
  uint64_t size_ = 0;
};

}  // namespace sotto
