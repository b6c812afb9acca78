// Units of the instructions of a frame, whose number times the seconds of one is their time: as
// kernel_terms() of cost/hardware/measured_machine.h, with what a frame's contents decide. Both who
// measures a machine and who prices a frame on it count so.
//
// A frame reads all its weights and all keys of its sequences once, then the next frame does: what
// of them the caches still hold depends on how much that is together. `mid` counts the bytes that
// come from beyond the nearest caches, `far` those that come from memory.
#pragma once

#include "cost/hardware/measured_machine.h"
#include "serve/predict/frame_load.h"

namespace tessera::serve {

// Shares of what a frame reads again, 0 to 1.
struct MissShares {
  double mid = 0, far = 0;
};

// Attention is dealt to `members` threads: the work of the one that has the most.
struct AttentionWork {
  double keys = 0;    // loaded, by every block of queries that sees them
  double scores = 0;  // pairs of a row and a key, in whole tiles
  double rows = 0;    // queries times heads
};
AttentionWork attention_work(const KernelArgs& args, const FrameLoad& load, int members);

// Units of an instruction other than attention to pages.
TimeTerms frame_terms(const Program& program, const Instruction& instruction,
                      const MissShares& misses);
// Units of attention to pages.
TimeTerms attention_terms(const Program& program, const Instruction& instruction,
                          const FrameLoad& load, const MissShares& misses);
// Units of what is no instruction: inputs, the starts of instructions, the choice of tokens.
// `logits`: that the choice looks at.
TimeTerms host_terms(int64_t tokens, int64_t instructions, int64_t logits);
// Adds what the ranks of this Program tell each other in collectives.
void add_talk_terms(const Program& program, TimeTerms& units);
inline constexpr std::string_view kHostWork = "frame";

// Bytes of weights that a frame of this Program reads, on this rank.
double weight_bytes(const Program& program);
// And of keys and values.
double cache_bytes(const Program& program, const FrameLoad& load);

}  // namespace tessera::serve
