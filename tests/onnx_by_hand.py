"""ONNX files of a few operators."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def tensor(name, *shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(path, nodes, inputs, outputs, weights=(), *, external=None):
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(weights))
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=9)
    for weight in model.graph.initializer if external else ():
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=external)
    path.write_bytes(model.SerializeToString())
    return path


def product(path, external=None, shape=("b", 4)):
    weight = numpy_helper.from_array(np.zeros((4, 3), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
    return save(path, [node], [tensor("x", *shape)], [tensor("y", None, None)], [weight], external=external)
