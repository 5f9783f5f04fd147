// The lines of a training log, for people and their scripts, in the form that PyTorch/XLA's
// examples print: `Device=` is the device and the rank.
//
//   Training Device=cpu:0/0 Epoch=8 Step=310 Loss=0.26758 Rate=1079.01 GlobalRate=1420.67
//   Time=18:02:10 MeanLoss=0.31415
#pragma once

#include <string>
#include <string_view>

#include "trainer/events.h"

namespace millrace::trainer {

/// Local time of day: "18:02:10".
std::string clock_time();
/// "0:00:28"; hours may exceed 24.
std::string duration_text(double seconds);

std::string training_line(const StepEvent& event, const std::string& time);
/// "Epoch 8 train begin 18:01:42".
std::string epoch_begin_line(std::int64_t epoch, const std::string& time);
/// "Epoch 8 train end 18:02:10, Epoch Time=0:00:28, Replica Train Samples=39664, Reduced
/// GlobalRate=45676.50, Train loss=0.31415, Train top1=89.20%", then Skipped= and Refetched= if
/// they are above 0, and "From Step=41" if a resumed run has continued the epoch there, whose time,
/// samples and rate are those of the rest.
std::string epoch_end_line(const EpochEvent& event, const std::string& time);
/// "Epoch 8 test end 18:02:14, Reduced Accuracy=88.21%, Replica Accuracy=88.30%, loss=...,
/// Test Samples=10000, Test Time=3.2 s". With a second line if there are IoUs of single classes.
std::string evaluation_line(const EpochEvent& event, const std::string& time);
/// Whether a value is one class's IoU: "iou/sky".
bool is_class_iou(std::string_view name);
/// "IoU by class: sky=91.23%, road=87.00%"; empty if there is none.
std::string class_iou_text(const NamedValues& values);
/// The epoch's stall report: seconds per step by part, and the verdict.
std::string stall_line(const EpochEvent& event);
std::string end_line(const EndEvent& event);
/// "Failed in epoch 2, after step 317: NotFinite: ...".
std::string fault_line(const FaultEvent& event);

}  // namespace millrace::trainer
