// One function per model; models.cc has the table of names.
#pragma once

#include "trainer/models/models.h"

namespace millrace::trainer::models {

nn::Graph alexnet(const ModelOptions& options);
nn::Graph lenet(const ModelOptions& options);
nn::Graph resnet18(const ModelOptions& options);
nn::Graph resnet34(const ModelOptions& options);
nn::Graph resnet50(const ModelOptions& options);
nn::Graph unet(const ModelOptions& options);

}  // namespace millrace::trainer::models
