// A list of instructions some of which become one: what the passes that do so share.
#pragma once

#include <vector>

#include "compile/lower/instances.h"
#include "compile/program/program.h"

namespace tessera {

// Before events: nothing waits for anything yet. `places` goes along with the instructions.
class Fusion {
 public:
  Fusion(Program& program, const std::vector<Region>& region_of,
         std::vector<InstructionPlace>& places)
      : list_(program.instructions),
        places_(places),
        gone_(program.instructions.size(), false),
        program_(program),
        region_of_(region_of) {}

 protected:
  // How far apart two may stand.
  static constexpr size_t kWindow = 16;

  // Whether something between them reads or writes `result`, or writes `source`.
  [[nodiscard]] bool touched_between(size_t first, size_t last, BufferId result,
                                     BufferId source) const;
  // Takes those that are gone out of the list.
  void drop_gone();

  std::vector<Instruction>& list_;
  std::vector<InstructionPlace>& places_;
  std::vector<bool> gone_;  // they became part of another

 private:
  [[nodiscard]] bool overlap(BufferId a, BufferId b) const;

  const Program& program_;
  const std::vector<Region>& region_of_;
};

}  // namespace tessera
