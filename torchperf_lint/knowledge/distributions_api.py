"""The classes of `torch.distributions`: what is checked on the host, how to disable that, and what they compute."""

from __future__ import annotations

import re

VALIDATE_POSITIONS = {
    "bernoulli.Bernoulli": 2,
    "beta.Beta": 2,
    "binomial.Binomial": 3,
    "categorical.Categorical": 2,
    "cauchy.Cauchy": 2,
    "chi2.Chi2": 1,
    "continuous_bernoulli.ContinuousBernoulli": 3,
    "dirichlet.Dirichlet": 1,
    "exponential.Exponential": 1,
    "fishersnedecor.FisherSnedecor": 2,
    "gamma.Gamma": 2,
    "generalized_pareto.GeneralizedPareto": 3,
    "geometric.Geometric": 2,
    "gumbel.Gumbel": 2,
    "half_cauchy.HalfCauchy": 1,
    "half_normal.HalfNormal": 1,
    "inverse_gamma.InverseGamma": 2,
    "kumaraswamy.Kumaraswamy": 2,
    "laplace.Laplace": 2,
    "log_normal.LogNormal": 2,
    "logistic_normal.LogisticNormal": 2,
    "lowrank_multivariate_normal.LowRankMultivariateNormal": 3,
    "multinomial.Multinomial": 3,
    "multivariate_normal.MultivariateNormal": 4,
    "negative_binomial.NegativeBinomial": 3,
    "normal.Normal": 2,
    "one_hot_categorical.OneHotCategorical": 2,
    "one_hot_categorical.OneHotCategoricalStraightThrough": 2,
    "pareto.Pareto": 2,
    "poisson.Poisson": 1,
    "relaxed_bernoulli.RelaxedBernoulli": 3,
    "relaxed_categorical.RelaxedOneHotCategorical": 3,
    "studentT.StudentT": 3,
    "uniform.Uniform": 2,
    "von_mises.VonMises": 2,
    "weibull.Weibull": 2,
}
"""Classes whose constructor reads the result of each parameter's check: the 0-based position of `validate_args`."""

CHECKED = {
    ref: position
    for path, position in VALIDATE_POSITIONS.items()
    for ref in (f"torch.distributions.{path}", f"torch.distributions.{path.rpartition('.')[2]}")
}
"""The same by all qualified names."""

SHORT = frozenset(
    f"torch.distributions.{name}"
    for path in VALIDATE_POSITIONS
    if (name := path.rpartition(".")[2]) not in ("LowRankMultivariateNormal", "MultivariateNormal", "VonMises")
)
"""Those whose constructors, draws and densities are a few short kernels."""

WRAPPERS = frozenset({"TransformedDistribution", "MixtureSameFamily"})
"""Classes without parameters of their own: their first argument is the distribution that they wrap."""

INDEPENDENT = frozenset({"torch.distributions.Independent", "torch.distributions.independent.Independent"})
"""It asks the distribution that it wraps for everything, and adds up."""

BASE = "torch.distributions.Distribution"
"""What all of them are."""

FAMILIES = frozenset({*CHECKED, *INDEPENDENT, BASE, *(f"torch.distributions.{name}" for name in WRAPPERS)})
"""All classes by their qualified names."""

VALIDATE = "validate_args"
"""The option that says whether a distribution checks what it is given."""

CHECKS_BY_DEFAULT = ">=1.8"
"""The versions of torch that check where the option is not set."""

SETTINGS = frozenset({VALIDATE, "total_count", "temperature"})
"""Arguments that say nothing of where a distribution computes."""

SAMPLE = frozenset("sample rsample sample_n".split())
"""Methods that draw."""

DRAW = SAMPLE | frozenset("entropy perplexity enumerate_support".split())
"""Methods whose result is where the parameters are."""

COMPUTE = frozenset("log_prob cdf icdf".split())
"""Methods of a value, whose result is where value and parameters are."""

CHECK_THEIR_VALUE = frozenset("log_prob cdf".split())
"""Those of these that check the value first."""

BROADCAST = "torch.distributions.utils.broadcast_all"
"""Brings values and parameters to one shape, in most constructors and densities."""

DIVERGENCES = frozenset({"torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence"})
"""Functions of two distributions, whose result is where these are."""

CHECKED_MODE = frozenset({VALIDATE, f"_{VALIDATE}"})
"""The option, and the attribute that keeps it, under which a distribution or a metric checks what it is given."""

GIVE_ITSELF = frozenset({"expand"})

TENSORS = frozenset(
    "mean mode variance stddev probs logits loc scale rate concentration concentration0 concentration1 low high df "
    "covariance_matrix scale_tril precision_matrix".split()
)
"""Attributes that are tensors where the parameters are."""

DRAWS_WITH_A_TEST = frozenset({"Normal", "LogNormal", "LogisticNormal"})
"""Classes whose `sample` draws with `torch.normal`, which makes sure on the host that no deviation is negative."""

NORMAL = "torch.normal"

SWITCHES_ALL = ("set_default_validate_args", "enable_validation")
"""Functions that enable or disable the checks of a whole program: torch's, and Pyro's, which calls it."""

BASES = re.compile(
    r"(torch|pyro|gpytorch)\.distributions\.(?!constraints\.)|gpytorch\.priors\.|zuko\.(distributions|transforms)\."
)
"""Qualified names of distributions and their transforms: torch's, and those of libraries that build on these."""

STEPS_OF_TRANSFORMS = {"_call": 1, "_inverse": 1, "log_abs_det_jacobian": 2}
"""Methods of a transform that torch calls, and how many tensors each is given."""

VALUES = {**dict.fromkeys(COMPUTE, 1), **STEPS_OF_TRANSFORMS}
"""Methods whose first parameters are tensors where the distribution's own are, and how many of them."""

NAMED_VALUES = frozenset("value values x z obs actions action".split())
"""Further parameters of a distribution's methods that are such tensors by their names."""

ASKED_PER_BATCH = frozenset("sample rsample sample_n entropy mode kl_divergence".split()) | frozenset(VALUES)
"""Methods that a loss, a policy or a flow uses in each step."""
