"""The networks of bench/peers.py: batch, shapes, and the model in gpipe-train's configuration. beside/modules.py has them in PyTorch."""
import dataclasses

MICRO_BATCHES = 4
UNET = {"depth": 5, "convs": 2, "channels": 16}  # torchgpipe's U-Net (2, 16): its benchmarks keep the depth at 5


@dataclasses.dataclass(frozen=True)
class Network:
    title: str
    batch: int
    shape: tuple  # of a sample
    loss: str
    model: str  # key of `model`, in YAML
    cut: int  # where PyTorch's pipelines divide the modules of beside/modules.py


def unet_layers(depth, convs, channels):
    """torchgpipe's benchmarks/models/unet with 3 input channels and 1 output channel, as a list of YAML flow mappings."""
    layers = []

    def stack(middle, out, name=None):
        for i in range(convs):
            last = i == convs - 1
            layers.append(f"conv: {{out: {out if last else middle}, kernel: 3, pad: 1, bias: false}}")
            layers.append("dropout: {p: 0.1, channels: true}")
            layers.append("instance_norm")
            layers.append(f"leaky_relu: {{slope: 0.01, name: {name}}}" if last and name else "leaky_relu: {slope: 0.01}")

    for level in range(depth):
        stack(channels << level, channels << level, f"skip{level}")
        layers.append("max_pool: 2")
    stack(channels << depth, channels << (depth - 1))
    for level in reversed(range(depth)):
        layers.append("upsample: 2")
        layers.append(f"concat: [-1, skip{level}]")
        stack((channels << level) // 2, (channels << level) // 2)
    layers.append("conv: {out: 1, kernel: 1, bias: false}")
    return layers


SMALL = """layers: [
    conv: {out: 16, kernel: 5, pad: 2}, batch_norm, relu, max_pool: 2,
    conv: {out: 32, kernel: 5, pad: 2}, batch_norm, relu, max_pool: 2, flatten, linear: 10]"""
RESNET = "resnet: {depth: 50, classes: 10}"
NETWORKS = {
    "small": Network("small CNN b64", 64, (1, 28, 28), "cross_entropy", SMALL, 4),
    "resnet50": Network("ResNet-50 32² b64", 64, (3, 32, 32), "cross_entropy", RESNET, 11),
    "resnet50-224": Network("ResNet-50 224² b16", 16, (3, 224, 224), "cross_entropy", RESNET, 11),
    "unet": Network("U-Net (2,16) 96² b8", 8, (3, 96, 96), "bce_logits",
                    "layers:\n" + "".join(f"    - {layer}\n" for layer in unet_layers(**UNET)), 45),
}


# The least that loads and runs what a program needs: what it takes is the program's and its libraries'.
TINY = Network("tiny", 1, (1, 4, 4), "cross_entropy",
               "layers: [conv: {out: 1, kernel: 3, pad: 1}, batch_norm, relu, max_pool: 2, flatten, linear: 2]", 3)


def configuration(network, pipeline):
    """A configuration of gpipe-train: random data, more steps than any measurement takes."""
    return f"""
model:
  input: {{shape: {list(network.shape)}}}
  {network.model}
  loss: {network.loss}
data: {{train: {{synthetic: {{samples: {network.batch * 8}}}}}, batch: {network.batch}}}
pipeline: {pipeline}
optimizer: {{sgd: {{lr: 0.001, momentum: 0.9}}}}
train: {{steps: 1000000}}
"""
