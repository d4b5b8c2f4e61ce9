"""Written by `python .ci/stubs.py`."""

from lite.nn.values.base import ValueEstimatorBase as ValueEstimatorBase
from lite.nn.values.gae import GAE as GAE
from lite.nn.values.gae import MultiAgentGAE as MultiAgentGAE
from lite.nn.values.off_policy import Retrace as Retrace
from lite.nn.values.off_policy import VTrace as VTrace
from lite.nn.values.td import TD0Estimator as TD0Estimator
from lite.nn.values.td import TD1Estimator as TD1Estimator
from lite.nn.values.td import TDLambdaEstimator as TDLambdaEstimator
