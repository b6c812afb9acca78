// Who is to go first when the machine runs out of memory. The tensors of ranks lie in memory that
// the kernel counts for no process: left alone, it ends whoever else is large.
#pragma once

namespace tessera {

// Ranks go before everybody else. Then their agent, which holds the last handle to the memory.
inline constexpr int kRankOomScore = 1000;
inline constexpr int kAgentOomScore = 900;

// Raises this process's score to at least `score`; a system that does not let it is left as it is.
// Safe between fork and exec.
void raise_oom_score(int score) noexcept;

}  // namespace tessera
