"""Published networks, layer by layer. Each function returns the network without a batch."""

from moccasin_mzn.graphs.generators.architectures.densenet import densenet121, densenet161, densenet169, densenet201
from moccasin_mzn.graphs.generators.architectures.mobilenet import mobilenet
from moccasin_mzn.graphs.generators.architectures.nasnet import nasnet_large, nasnet_mobile
from moccasin_mzn.graphs.generators.architectures.pnasnet import pnasnet5_large, pnasnet5_mobile
from moccasin_mzn.graphs.generators.architectures.resnet import resnet50, resnet101, resnet152
from moccasin_mzn.graphs.generators.architectures.segmentation import fcn8, segnet, unet
from moccasin_mzn.graphs.generators.architectures.transformer import transformer_decoder
from moccasin_mzn.graphs.generators.architectures.vgg import vgg16, vgg19

__all__ = [
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
    "fcn8",
    "mobilenet",
    "nasnet_large",
    "nasnet_mobile",
    "pnasnet5_large",
    "pnasnet5_mobile",
    "resnet50",
    "resnet101",
    "resnet152",
    "segnet",
    "transformer_decoder",
    "unet",
    "vgg16",
    "vgg19",
]
