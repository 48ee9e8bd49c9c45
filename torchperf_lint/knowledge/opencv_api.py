"""OpenCV's multithreaded functions.

Measured with opencv-python 4.12.0 on images of 768 x 768: each of these starts threads, some of them only for larger
images, or where Intel's primitives are not used.
"""

from __future__ import annotations

THREADED = tuple(
    "cv2." + name
    for name in (
        "resize warpAffine warpPerspective remap undistort GaussianBlur stackBlur bilateralFilter Canny cvtColor "
        "equalizeHist LUT threshold distanceTransform pyrDown calcOpticalFlowFarneback calcOpticalFlowPyrLK "
        "connectedComponents findContours HoughLines goodFeaturesToTrack"
    ).split()
)
