// What a call needs from the buffers of one rank, and what can be wrong with it before anybody else
// is asked.
#pragma once

#include <string>

#include "comm/communicator.h"

namespace tessera::shared {

// Bytes that `rank` of `size` hands in and gets back; 0 for buffers it does not use.
int64_t input_bytes(const CollectiveCall& call, int rank, int size);
int64_t output_bytes(const CollectiveCall& call, int rank, int size);

// Whether ranks other than its owner touch a buffer while data moves (see movement.h).
bool peers_read_input(CollectiveOp op);
bool peers_store_output(CollectiveOp op);

// A hash of what must agree in this call and in all before it, whose hash is `history`.
uint64_t extend_history(uint64_t history, const CollectiveCall& call);

// Whether contributions travel in mailboxes: the same answer on every rank.
bool fits_mail(const CollectiveCall& call, int size);

// Whether the call runs a schedule of messages instead of moving between buffers.
bool has_schedule(const CollectiveCall& call);

// How many blocks of `count` elements the longer buffer of a call has.
int num_blocks(const CollectiveCall& call, int size);

// "count is -1", or nothing.
std::string what_is_wrong(const CollectiveCall& call, int rank, int size);

}  // namespace tessera::shared
