// Slots of an epoch as text: lines of JSON, lines for people, and what a digest is of.
//
//   append_json(slot, text);   // {"slot":3,"step":1,"stream":0,"url":"a.tar","key":"0003"}\n
//
// Threads: pure functions.
#pragma once

#include <string>

#include "tools/order/epoch_order.h"

namespace millrace::tools {

void append_json(const OrderedSlot& slot, std::string& text);
void append_line(const OrderedSlot& slot, std::string& text);
/// The slot's number, 8 bytes of which the first is the lowest, then its key, empty where it is
/// masked, and a zero byte.
void append_identity(const OrderedSlot& slot, std::string& text);

}  // namespace millrace::tools
