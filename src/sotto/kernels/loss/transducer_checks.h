// The part of Transducer that needs only the host: checks of its inputs, and which rows the nodes
// of a chunk read. Internal to that kernel.
#pragma once

#include <span>

#include "sotto/kernels/loss/transducer.h"
#include "sotto/kernels/loss/transducer_task.h"

namespace sotto::kernels::detail {

void check_transducer(const Transducer::Inputs& in, const Transducer::Options& options);

// Returns the mask of the joint network, over the elements of an utterance's nodes.
DropoutRule transducer_dropout(const Transducer::Inputs& in);

struct TransducerSpan {
  TransducerRows frames;
  TransducerRows predictions;
};

// Returns the rows of the encoder that nodes of the chunk read, and all rows of the prediction
// network of their utterances.
TransducerSpan span_of(std::span<const TransducerUtterance> utterances,
                       const TransducerChunk& chunk);

}  // namespace sotto::kernels::detail
