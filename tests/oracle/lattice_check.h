// The logits of a transducer, node by node, against those of another implementation.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "oracle/hugging_face_fixture.h"

namespace sotto::test {

// Compares every node of every utterance; `theirs` returns the logits of one, [T, U + 1, V + D].
inline void expect_lattice(models::LatticeScorer& lattice, const ModelFixture& fixture,
                           const std::function<at::Tensor(int64_t utterance)>& theirs) {
  for (int64_t u = 0; u < lattice.size(); ++u) {
    const std::vector<int32_t> labels = fixture.whole_numbers(fmt::format("labels.{}", u));
    lattice.begin(std::ssize(labels) + 1);
    const at::Tensor expected = theirs(u);
    for (int64_t count = 0; count <= std::ssize(labels); ++count) {
      if (count > 0)
        lattice.append(std::vector<models::LatticeScorer::Append>{
            {.from = count - 1, .label = labels[static_cast<size_t>(count - 1)], .to = count}});
      std::vector<models::LatticeScorer::Node> nodes;
      for (int64_t t = 0; t < lattice.num_frames()[static_cast<size_t>(u)]; ++t)
        nodes.push_back({.utterance = u, .frame = t, .memory = count});
      EXPECT_LT(relative_error(lattice.score(nodes), expected.select(1, count)), kNetworkTolerance)
          << "utterance " << u << " after " << count << " labels";
    }
  }
}

}  // namespace sotto::test
