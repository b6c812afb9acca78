// Frames and their results as bytes, for ranks that are processes. Numbers are little-endian; a
// list is its length (u32) and its elements.
//
//   frame    version u8, 'F' u8, number u64, tokens, sequences, samplings, rows, copies,
//            masks_follow u8
//   masks    version u8, 'M' u8, number u64, for each row: its mask
//   result   version u8, 'R' u8, number u64, tokens
//
// Samplings are those that rows share, each once. What is decoded is bounded by the shape that the
// ranks were made for, and right in itself: every token is of the vocabulary, every page of the
// cache, every sequence has the pages that its tokens need, every row a token. All else is refused
// by an Error that says what is wrong, before memory is taken for it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "serve/frame.h"

namespace tessera::serve {

std::vector<std::byte> encode(const Frame& frame);
std::vector<std::byte> encode(const FrameMasks& masks);
std::vector<std::byte> encode(const FrameResult& result);

Frame decode_frame(std::span<const std::byte> bytes, const ServeShape& shape);
FrameMasks decode_frame_masks(std::span<const std::byte> bytes, const ServeShape& shape);
FrameResult decode_frame_result(std::span<const std::byte> bytes, const ServeShape& shape);

}  // namespace tessera::serve
