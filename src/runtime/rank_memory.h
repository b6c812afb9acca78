// The memory of one rank. What a run keeps, weights, the state of the optimizer and the cache, is
// there once and stays while Programs come and go: a Program that trains and one that only looks,
// or one for long inputs and one for single tokens. Everything else is each Program's own, or,
// where they are many, of them all in turn.
//
// It is made by the first Program that needs it, zeroed, and touched by the thread that admits it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "compile/program/program.h"
#include "runtime/device/rank_device.h"
#include "runtime/program_memory.h"
#include "tensor/arena.h"

namespace tessera {

class RankMemory {
 public:
  // `device` must outlive it.
  RankMemory(RankDevice& device, int rank) : device_(device), rank_(rank) {}
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  // Room for a Program; must not outlive this. Throws Error where the Program keeps something at
  // another place than those before it: they would read each other's weights as something else.
  ProgramMemory admit(const Program& program);

  // Programs admitted from now on have activations, communication and workspace in arenas of so
  // many bytes that they use in turn: what one leaves there means nothing to the next, but for the
  // tables of rotary positions, which must lie at one place in all of them. Called once.
  using ArenaBytes = std::array<int64_t, kNumArenas>;
  void share_room(const ArenaBytes& bytes);

 private:
  // One kept buffer.
  struct Place {
    std::string name;
    DType dtype;
    Shape shape;
    int64_t offset;
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Kept {
    HostArena arena;
    std::vector<Place> places;
  };

  [[nodiscard]] static std::vector<Place> places_of(const Program& program, ArenaKind arena);
  const HostArena& keep(const Program& program, ArenaKind arena);
  void require_same(const Kept& kept, const Program& program, ArenaKind arena) const;
  const HostArena& take_turns(const Program& program, ArenaKind arena);
  void require_same_tables(const Program& program);
  [[nodiscard]] HostArena allocate(const Program& program, ArenaKind arena);

  RankDevice& device_;
  int rank_;
  std::array<Kept, kNumArenas> kept_;
  std::array<HostArena, kNumArenas> room_;  // that Programs use in turn
  bool shares_room_ = false;
  std::vector<Place> tables_;  // of the first Program in it
};

}  // namespace tessera
